"""What computed a trial: the host, the user's files, and which of these are trusted."""
