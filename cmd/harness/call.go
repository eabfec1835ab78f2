package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"harness/pkg/plain"
	"harness/pkg/wire"
)

func newCallCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON | - | KEY=VALUE...]",
		Short: "Call one tool, as an agent would",
		Long: "call calls one tool, as an agent would. The arguments are one JSON object, `-`\n" +
			"for one on standard input, or KEY=VALUE pairs whose values are JSON where they\nare that and text otherwise.",
		Example: "  harness call files__read_file path=README.md\n  harness call files__read_file '{\"path\":\"README.md\"}'",
		Args:    atLeast(1, "the name of a tool"),

		ValidArgsFunction: g.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := callArguments(args[1:], cmd.InOrStdin())
			if err != nil {
				return err
			}
			a, err := g.dialAgent(cmd.Context())
			if err != nil {
				return err
			}
			defer a.conn.Close()
			params := append(wire.AppendQuoted([]byte(`{"name":`), args[0]), `,"arguments":`...)
			result, err := a.request("tools/call", append(append(params, arguments...), '}'))
			if err != nil {
				return err
			}
			return reportCall(cmd.OutOrStdout(), cmd.ErrOrStderr(), result, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// callArguments returns the arguments of a call as one line of raw JSON.
func callArguments(args []string, in io.Reader) ([]byte, error) {
	switch {
	case len(args) == 0:
		return []byte("{}"), nil
	case len(args) == 1 && args[0] == "-":
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
		return object(data)
	case len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{"):
		return object([]byte(args[0]))
	}
	out := []byte{'{'}
	for i, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, usagef("%q is neither a JSON object nor KEY=VALUE", arg)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(wire.AppendQuoted(out, key), ':')
		if json.Valid([]byte(value)) {
			out = append(out, value...)
		} else {
			out = wire.AppendQuoted(out, value)
		}
	}
	return append(out, '}'), nil
}

// object checks that data is one JSON object and puts it on one line; line
// breaks can only stand between its tokens.
func object(data []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, usagef("the arguments are not a JSON object: %w", err)
	}
	return []byte(strings.NewReplacer("\n", " ", "\r", " ").Replace(strings.TrimSpace(string(data)))), nil
}

// reportCall prints the text of a result, or all of it as JSON, and fails
// where the tool did.
func reportCall(out, errOut io.Writer, result []byte, asJSON bool) error {
	var r struct {
		IsError bool `json:"isError"`
		Content []struct{ Type, Text string }
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return fmt.Errorf("read the result: %w", err)
	}
	if asJSON {
		if _, err := fmt.Fprintf(out, "%s\n", result); err != nil {
			return err
		}
	} else {
		w := out
		if r.IsError {
			w = errOut
		}
		for _, c := range r.Content {
			if c.Type == "text" {
				fmt.Fprintln(w, plainLines(c.Text))
			} else {
				fmt.Fprintf(w, "(%s content; --json shows it)\n", plain.Text(c.Type))
			}
		}
	}
	if r.IsError {
		return silentError{}
	}
	return nil
}

// plainLines makes text safe to show and keeps its lines.
func plainLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = plain.Text(line)
	}
	return strings.Join(lines, "\n")
}
