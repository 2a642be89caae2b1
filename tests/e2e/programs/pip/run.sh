# A virtual environment, and a wheel made here installed into it, without any index.
set -eu
python3 make_wheel.py
python3 -m venv env
env/bin/pip install --no-index --no-cache-dir ./greeting-1.0-py3-none-any.whl
env/bin/greeting world
env/bin/python -c 'import greeting, sys; print(greeting.__file__, sys.prefix)'
env/bin/pip list --format freeze
env/bin/pip uninstall -y greeting
env/bin/pip check
