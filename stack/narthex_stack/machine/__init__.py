"""The resources of one machine: files, free ports, a Java, and downloaded jars."""
