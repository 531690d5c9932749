# SPDX-License-Identifier: MIT
# javac and java: threads, zip streams (native zlib), direct buffers and two garbage collectors.
# needs: javac java
# serves: javac java
# modes: fast secure debug
. "$CASES/lib.sh"
under javac -d . "$CASES/programs/Work.java"
under java -Xmx300m -XX:+UseG1GC -cp . Work
under java -Xmx300m -XX:+UseParallelGC -cp . Work
