package fakemodel

import "fmt"

// Client is how one agent CLI is started so that it asks a model at a base
// URL.
type Client struct {
	// Program is the command's name.
	Program string
	// Say are the arguments that make it work off one text and end.
	Say func(text string) []string
	// Prompt are those that make it work off a prompt of the server harness,
	// with one argument. It is nil where the CLI knows no prompts of servers.
	Prompt func(name, argument string) []string
	// Own is the end of the name of a tool of its own that does nothing, since
	// it is called without what it needs.
	Own string
	// Env has NAME=value of what it needs in its environment.
	Env []string
	// Home has the files it needs in its home directory, by path below it.
	// Some refuse to work where the home is in the temporary directory.
	Home map[string]string
}

// Clients returns the CLIs that are known, for a model at url, such as
// http://127.0.0.1:1234.
func Clients(url string) []Client {
	claude := func(text string) []string { return []string{"-p", text} }
	opencode := []string{"run", "-m", "fake/none"}
	// Without the name of a model it asks another one first which to take.
	gemini := func(text string) []string { return []string{"-m", "gemini-2.5-flash", "-p", text} }
	return []Client{
		{
			Program: "claude", Say: claude, Own: "Read",
			Prompt: func(name, argument string) []string { return claude("/mcp__harness__" + name + " " + argument) },
			Env: []string{
				"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=none",
				// Else it offers a tool to search for tools, instead of them.
				"ENABLE_TOOL_SEARCH=false",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
			},
		},
		{
			Program: "codex", Own: "update_plan",
			Say: func(text string) []string {
				return []string{
					"exec", "--skip-git-repo-check", "-c", "model=none", "-c", "model_provider=fake",
					"-c", fmt.Sprintf(`model_providers.fake={name="fake",base_url="%s/v1",env_key="FAKE_KEY",wire_api="responses"}`, url),
					text,
				}
			},
			Env: []string{"FAKE_KEY=none"},
		},
		{
			Program: "opencode", Own: "read", Say: func(text string) []string { return append(opencode, text) },
			Prompt: func(name, argument string) []string { return append(opencode, "--command", "harness:"+name, argument) },
			Env:    []string{"OPENCODE_DISABLE_AUTOUPDATE=1"},
			Home: map[string]string{".config/opencode/opencode.json": fmt.Sprintf(
				`{"provider":{"fake":{"npm":"@ai-sdk/openai-compatible","name":"fake","options":{"baseURL":"%s/v1","apiKey":"none"},"models":{"none":{"name":"none"}}}}}`, url)},
		},
		{
			Program: "gemini", Say: gemini, Own: "read_file",
			Prompt: func(name, argument string) []string { return gemini("/" + name + " " + argument) },
			Env:    []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=none", "GEMINI_CLI_TRUST_WORKSPACE=true"},
			Home:   map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},"general":{"disableAutoUpdate":true},"privacy":{"usageStatisticsEnabled":false}}`},
		},
	}
}
