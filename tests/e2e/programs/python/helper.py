"""Imported by main.py, so that a compiled copy is written beside it."""


def square(number):
    return number * number
