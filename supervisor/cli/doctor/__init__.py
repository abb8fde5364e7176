"""The checks of `understudy doctor`, one module for each subject."""
