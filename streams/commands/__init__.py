"""More commands of glimpse, by what they work on."""
