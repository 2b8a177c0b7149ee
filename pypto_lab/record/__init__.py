"""Run a script under the recorder and step in the recording, both ways."""
