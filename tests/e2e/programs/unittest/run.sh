# The tests of a small package, by the runner of the standard library and by pytest; then a test that fails.
# The distribution's own Python: pytest is one of its packages.
set -eu
/usr/bin/python3 -m unittest discover -s tests 2>&1
/usr/bin/python3 -m pytest -q tests
cat >tests/test_fails.py <<'TEXT'
def test_fails():
    assert 1 == 2
TEXT
/usr/bin/python3 -m pytest -q tests/test_fails.py >/dev/null 2>&1 || echo "pytest says $?"
