"""Scripts that write data for the trainer, under its own TensorFlow."""

HEAD = """
import numpy, sys, tensorflow as tf
random = numpy.random.RandomState(3)
labels = random.randint(0, 5, 103)
images = (random.randint(0, 100, (103, 6, 7, 3)) + 30 * labels[:, None, None, None]).astype(numpy.uint8)
images[:, 0, 0] = 255

def of_bytes(value): return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
def of_int(value): return tf.train.Feature(int64_list=tf.train.Int64List(value=numpy.ravel(value)))
def of_float(value): return tf.train.Feature(float_list=tf.train.FloatList(value=numpy.ravel(value)))
def png(image): return of_bytes(tf.io.encode_png(image).numpy())

def write(name, examples):
    with tf.io.TFRecordWriter(name) as writer:
        for features in examples:
            example = features if isinstance(features, bytes) else tf.train.Example(
                features=tf.train.Features(feature=features)).SerializeToString()
            writer.write(example)

def examples(image, rows=slice(None), labels=labels, names=("image", "label")):
    return [dict(zip(names, (image(x), of_int(y)))) for x, y in zip(images[rows], labels[rows])]
"""

SAME = (
    HEAD
    + """
numpy.savez("same.npz", x=images, y=labels)
write("png-0.tfrecord", examples(png, slice(0, 50)))
write("png-1.tfrecord", [])
write("png-2.tfrecord", examples(png, slice(50, None)))
write("slim.tfrecord", examples(png, names=("image/encoded", "image/class/label")))
write("raw.tfrecord", examples(lambda image: of_bytes(image.tobytes())))
write("ints.tfrecord", examples(of_int))
write("floats.tfrecord", examples(of_float))
"""
)
"""The same images as an .npz file and in every way in which TFRecords may hold them."""

WRONG = (
    HEAD
    + """
whole = examples(png)
write("good.tfrecord", whole)
data = open("good.tfrecord", "rb").read()
open("cut.tfrecord", "wb").write(data[:-7])
write("mixed-0.tfrecord", whole)
open("mixed-1.tfrecord", "w").write("no record")
write("bytes.tfrecord", [b"no example"] * 20)
write("none.tfrecord", [{"picture": png(images[0])}] * 20)
write("unlabelled.tfrecord", [{"image": png(images[0])}] * 20)
write("names.tfrecord", [{"image": png(images[0]), "label": of_bytes(b"cat")}] * 20)
write("sizes.tfrecord", whole[:20] + [{"image": png(images[0, 1:]), "label": of_int(1)}])
write("broken.tfrecord", whole[:20] + [{"image": of_bytes(b"no image"), "label": of_int(1)}])
write("years.tfrecord", examples(png, labels=labels + 2000))
write("raw.tfrecord", examples(lambda image: of_bytes(image.tobytes())))
import gzip
gzip.open("zipped.tfrecord", "wb").write(data)
open("zeros.bin", "wb").write(bytes(1000))
open("short.txt", "w").write("too short")
"""
)
"""TFRecords and texts that can't be trained on."""
