# A program started from its source, then compiled, put into an archive, and run from there.
set -eu
java Main.java a b || echo "java says $?"
rm -r made copied link made.zip
mkdir classes
javac -d classes Main.java
jar --create --file main.jar --main-class Main -C classes .
java -XX:+UseParallelGC -Xmx64m -jar main.jar c || echo "java says $?"
java -cp classes Missing 2>&1 || echo "java says $?"
