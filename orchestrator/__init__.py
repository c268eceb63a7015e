"""orch: train TensorFlow models on GPU servers that you reach by SSH and nothing else."""

__version__ = "0.1.0"
