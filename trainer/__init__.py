"""A small image trainer in plain Keras, to run as it is (`python -m trainer`) or to copy into a project.

It needs TensorFlow and nothing else: the same files run under TensorFlow 2.9.3 (Python 3.8, Keras 2) and
under the newest TensorFlow (Keras 3). Each file has one job; `train.py` tells the story.
"""
