"""What the platform and a serving process say to each other: records, one line of JSON each, over a local socket."""
