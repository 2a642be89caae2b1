from setuptools import Extension, setup

setup(ext_modules=[Extension("counting.fast", ["src/counting/fast.c"])])
