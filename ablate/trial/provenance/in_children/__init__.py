"""What Python finds first in the processes that a trial starts."""
