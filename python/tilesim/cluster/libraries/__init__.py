"""What communication libraries take: forms, steps, arguments."""
