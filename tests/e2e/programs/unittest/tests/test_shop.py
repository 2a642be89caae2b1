import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import shop  # noqa: E402


class Shop(unittest.TestCase):
    def test_a_total_is_the_sum(self):
        self.assertEqual(shop.total({"tea": 3, "cup": 4}, ["tea", "tea", "cup"]), 10)

    def test_what_was_saved_is_loaded(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "prices"
            shop.save(path, {"tea": 3})
            self.assertEqual(shop.load(path), {"tea": 3})

    def test_another_process_reads_it_too(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "prices"
            shop.save(path, {"tea": 3})
            read = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(path)]
            self.assertEqual(subprocess.run(read, capture_output=True, text=True, check=True).stdout, '{"tea": 3}\n')


if __name__ == "__main__":
    unittest.main()
