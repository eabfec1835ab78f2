// Package adopt turns the MCP servers that agent CLIs have of their own into a
// harness.toml and its env_files. It owns which of them become one, what they
// are called and how they are spelled; it reads and writes no file.
//
// # Decisions
//
// It is a room beside adapter, which knows what each CLI's files mean, and
// config, which knows what a harness.toml means: nobody else has to know both.
//
// Servers are one where one process would do for both: timeouts and switches do
// not count. An entry for everywhere and one for this directory are alike then.
//
// Whatever a value of env is, it may be a secret. It is in an env_file, and in
// nothing else that comes out of here, unless it is a variable's name alone.
//
// Every table is loaded by config before it is let out. One that it would refuse
// would have all others refused too, so it stands there as a comment that says
// why.
package adopt
