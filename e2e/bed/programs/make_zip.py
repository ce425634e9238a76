"""Writes a ZIP of so many members to a path."""
import random, sys, zipfile

generator = random.Random(1)
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
    for n in range(int(sys.argv[2])):
        archive.writestr(f"part-{n}.bin", generator.randbytes(2_000) + b"x" * 3_000)
