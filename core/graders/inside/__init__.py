"""What runs in a process of its own: the loop that serves gradings, what confines each, and the gradings.

This room reads the standard library, the graders' libraries, and nothing else of Castalia.
"""
