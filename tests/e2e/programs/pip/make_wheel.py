"""Writes the smallest wheel with a module and a program: a zip with its record."""
import base64
import hashlib
import zipfile

FILES = {
    "greeting.py": "import sys\n\ndef main():\n    print('hello', *sys.argv[1:])\n",
    "greeting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
    "greeting-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "greeting-1.0.dist-info/entry_points.txt": "[console_scripts]\ngreeting = greeting:main\n",
}
record = ""
with zipfile.ZipFile("greeting-1.0-py3-none-any.whl", "w") as wheel:
    for name, text in FILES.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
        wheel.writestr(zipfile.ZipInfo(name), text)
    wheel.writestr(zipfile.ZipInfo("greeting-1.0.dist-info/RECORD"), record + "greeting-1.0.dist-info/RECORD,,\n")
