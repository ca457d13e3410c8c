"""Adds the MCP server to the configuration of agents, and takes it out again, byte for byte."""
