"""Hold dated facts as data files, each row with its source and date."""
