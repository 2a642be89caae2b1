"""Gives the named files extended attributes (`set`), or shows what they have (`show`). Not every file system has them."""
import errno
import os
import sys

for name in sys.argv[2:]:
    if sys.argv[1] == "set":
        try:
            os.setxattr(name, "user.note", f"of {name}".encode())
            os.setxattr(name, "user.large", b"x" * 1000)
        except OSError as error:
            if error.errno != errno.ENOTSUP:
                raise
            print(name, "cannot have any")
    else:
        print(name, [(one, os.getxattr(name, one)[:40]) for one in sorted(os.listxattr(name))])
