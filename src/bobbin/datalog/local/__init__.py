"""The back end in this process: compiled rules over tables in memory."""
