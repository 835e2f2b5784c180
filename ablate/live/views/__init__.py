"""What each page has, as data. A view is a file."""
