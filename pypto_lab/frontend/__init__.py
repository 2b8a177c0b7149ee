"""Text to IR: user source, jit specialisation, dumps; diagnostics with spans and hints."""
