"""Scripts that run beside the trainer under the same TensorFlow, and look at what it left."""

SAVED_MODEL_ACCURACY = """
import numpy, tensorflow
from trainer import arguments, dataset
test = dataset.load(arguments.parse([])).test
model = tensorflow.saved_model.load("saved_model").signatures["serving_default"]
(name,) = model.structured_input_signature[1]
(probabilities,) = model(**{name: tensorflow.constant(test.inputs, tensorflow.float32)}).values()
numpy.testing.assert_allclose(probabilities.numpy().sum(axis=1), 1, rtol=1e-5)
print(f"{(probabilities.numpy().argmax(axis=1) == test.labels).mean():.4f}")
"""
"""Load ./saved_model with nothing of the trainer's network, feed it raw digits and print its accuracy."""

CHECKPOINT = """
import json, tensorflow
from tensorflow import keras
from trainer import arguments, dataset, model, scaling
options = arguments.parse([])
data = dataset.load(options)
network = model.build(options, data)
model.compile(network, options, scaling.plan(options, 1, 1))
network.optimizer.build(network.trainable_variables) if hasattr(network.optimizer, "build") else None
position = tensorflow.Variable("")
state = tensorflow.train.Checkpoint(model=network, optimizer=network.optimizer, position=position)
state.restore(tensorflow.train.latest_checkpoint("checkpoints")).assert_existing_objects_matched()
predicted = network.predict(data.test.inputs, verbose=0).argmax(axis=1)
print(int(network.optimizer.iterations.numpy()), json.loads(position.numpy())["epoch"],
      f"{(predicted == data.test.labels).mean():.4f}")
"""
"""Load the latest of ./checkpoints into a new network; print step, epochs and accuracy."""

SCALARS = """
import glob, tensorflow
for part in ("train", "validation"):
    (file,) = glob.glob(f"logs/{part}/events*")
    events = list(tensorflow.compat.v1.train.summary_iterator(file))
    tags = {value.tag for event in events for value in event.summary.value}
    epochs = [event.step for event in events for value in event.summary.value if value.tag == "epoch_loss"]
    print(part, len(epochs), max(epochs), "epoch_accuracy" in tags)
"""
"""Print how many epochs stand in the event files of ./logs, the last one, and whether accuracy does."""

REPLICAS = """
import sys
import tensorflow
cpu = tensorflow.config.list_physical_devices("CPU")[0]
tensorflow.config.set_logical_device_configuration(cpu, [tensorflow.config.LogicalDeviceConfiguration()] * 3)
from trainer import __main__, strategy
strategy.gpus = lambda: ["/cpu:0", "/cpu:1", "/cpu:2"]
__main__.leave(__main__.main(sys.argv[1:]))
"""
"""The trainer with three parts of the CPU in place of three GPUs."""

COLOUR_IMAGES = """
import numpy
random = numpy.random.RandomState(1)
labels = random.randint(0, 4, (60, 1))
images = random.rand(60, 9, 7, 3) + labels[..., None, None]
numpy.savez("own.npz", x_train=images, y_train=labels, x_test=images[:5], y_test=labels[:5])
"""
"""Write own.npz, laid out as Keras's own data sets are, its images neither square nor grey."""
