package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"harness/pkg/config"
	"harness/pkg/contract"
	"harness/pkg/daemon"
	"harness/pkg/delegate"
)

func newServeMCPCmd(g *globals) *cobra.Command {
	var tenant, user, http string
	var standalone bool
	cmd := &cobra.Command{
		Use:   "serve-mcp",
		Short: "Serve contracts over MCP on stdin and stdout, for an agent outside the fleet",
		Long:  "serve-mcp is an MCP server of four tools: an agent that is given no tool of the fleet\nhands over a contract and receives a signed verdict. Contracts may live under the working\ndirectory, [server] roots, and projects that are up. `harness help contracts` has the whole\nof it.",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("http") {
				return usagef("--http %s: not supported, serve-mcp speaks stdio only", http)
			}
			for flag, v := range map[string]string{"principal-tenant": tenant, "principal-user": user} {
				if problem := nameProblem(v); problem != "" {
					return usagef("--%s: %s", flag, problem)
				}
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			r, closeRunner, err := g.runner(context.WithoutCancel(cmd.Context()), g.principal(tenant, user), standalone, cmd)
			if err != nil {
				return err
			}
			defer closeRunner()
			err = delegate.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), delegate.Options{
				Runner: r,
				Find: func(text string) (contract.Source, error) {
					return g.findContract(cmd.Context(), text, dir, standalone)
				},
				Version: programVersion(),
				Log:     slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
			})
			if errors.Is(err, os.ErrClosed) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&tenant, "principal-tenant", "", "the tenant that is sealed in every entry (default local)")
	cmd.Flags().StringVar(&user, "principal-user", "", "the user that is sealed in every entry (default the one it runs as)")
	cmd.Flags().BoolVar(&standalone, "standalone", false, "do without a daemon, also where one runs")
	cmd.Flags().StringVar(&http, "http", "", "not supported")
	_ = cmd.Flags().MarkHidden("http") // it is there to be refused with a reason
	return cmd
}

// maxName bounds what is sealed in every entry of who asks, in bytes.
const maxName = 256

// nameProblem says why s cannot name who asks, or "".
func nameProblem(s string) string {
	switch {
	case len(s) > maxName:
		return fmt.Sprintf("it has %d bytes, and %d are the limit", len(s), maxName)
	case !utf8.ValidString(s):
		return "it is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "it has a control character"
	}
	return ""
}

// findContract finds a contract where the machine's owner allows some to be.
func (g *globals) findContract(ctx context.Context, text, dir string, standalone bool) (contract.Source, error) {
	var roots []string
	path := g.paths().Config
	if data, err := daemon.ReadRegular(path); err == nil {
		home, _ := os.UserHomeDir()
		cfg, _, faults := config.Load(config.Source{Path: path, Data: data, Kind: config.Global}, config.Env{Home: home, Lookup: os.LookupEnv})
		if len(faults) == 0 {
			roots = append(roots, cfg.Server.Roots...)
		}
	}
	if !standalone {
		roots = append(roots, g.projectRoots(ctx)...)
	}
	return contract.Find(text, dir, roots)
}

// projectRoots are the directories of the projects that a daemon has up; none
// where there is no daemon.
func (g *globals) projectRoots(ctx context.Context) []string {
	c, err := g.client(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	projects, err := c.Projects(ctx)
	if err != nil {
		return nil
	}
	var roots []string
	for _, p := range projects {
		roots = append(roots, filepath.Dir(p.Path))
	}
	return roots
}
