"""with_backend.py PROGRAM: runs a program of PyTorch with the package of the build folder, whose backend PyTorch finds by
itself only where the package is installed."""
import runpy
import sys

import gpurun.torch_backend

gpurun.torch_backend.register()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
