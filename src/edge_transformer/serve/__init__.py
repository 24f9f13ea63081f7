"""Models behind HTTP, and a page to play with them; needs the extra `[serve]`, but for `document`."""
