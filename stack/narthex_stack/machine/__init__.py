"""What one machine offers: files, free ports, a Java, and downloaded jars."""
