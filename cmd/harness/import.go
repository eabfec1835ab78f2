package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"harness/pkg/adapter"
	"harness/pkg/adopt"
	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/daemon"
	"harness/pkg/plain"
)

// imported is the answer of `harness import --json`.
type imported struct {
	Servers control.List[importedServer] `json:"servers"`
	Skipped control.List[adopt.Skipped]  `json:"skipped"`
	Errors  control.List[control.Fault]  `json:"errors"`
}

type importedServer struct {
	Key     string                     `json:"key"`
	Cmd     string                     `json:"cmd"`
	Args    control.List[string]       `json:"args"`
	Workdir *string                    `json:"workdir"`
	Env     control.List[string]       `json:"env"`
	Enabled bool                       `json:"enabled"`
	Sources control.List[adopt.Source] `json:"sources"`
}

func newImportCmd(g *globals) *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import [AGENT...]",
		Short: "Print a harness.toml of the MCP servers that your agents have of their own",
		Long: "import reads the MCP servers of " + strings.Join(adapter.Agents(), ", ") + ", or of those that are named,\n" +
			"where each keeps them, and prints a harness.toml with all of them. With -o it writes that file, and\n" +
			"beside it an env_file for each server that is given values; it overwrites nothing. Values of env are\n" +
			"never printed. It changes no file of an agent.",
		ValidArgs: adapter.Agents(),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if !slices.Contains(adapter.Agents(), name) {
					return usagef("there is no agent %q; import knows %s", name, strings.Join(adapter.Agents(), ", "))
				}
			}
			if cmd.Flags().Changed("output") && file == "" {
				return usagef("-o takes the path of a file")
			}
			return importServers(cmd, g.paths().Config, args, file, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVarP(&file, "output", "o", "", "write it to this file, which must not exist, with its env_files beside it")
	return cmd
}

func importServers(cmd *cobra.Command, global string, agents []string, file string, asJSON bool) error {
	world, err := agentWorld()
	if err != nil {
		return err
	}
	var all []adapter.Own
	var servers []adapter.OwnServer
	for _, name := range adapter.Agents() {
		if len(agents) == 0 || slices.Contains(agents, name) {
			own := adapter.ReadOwn(name, world)
			all, servers = append(all, own), append(servers, own.Servers...)
		}
	}
	plan := adopt.Make(servers, config.Env{Home: world.Home, Lookup: world.Lookup})
	result := toImported(plan, all)
	reportImport(cmd.ErrOrStderr(), all, plan, result)
	empty := len(servers) == 0 && (len(agents) > 0 || file != "")
	switch {
	case empty && len(result.Errors) == 0:
		return errors.New("there is no server to import")
	case file != "" && !empty:
		err = saveImport(cmd.ErrOrStderr(), plan, global, file)
	case !asJSON && len(plan.Servers) > 0:
		err = showImport(cmd, plan, filepath.Dir(global))
	}
	if err == nil && asJSON {
		err = printJSON(cmd.OutOrStdout(), result)
	}
	if err != nil {
		return err
	}
	if len(result.Errors) > 0 {
		return silentError{}
	}
	return nil
}

// agentWorld is what an agent would be started in here.
func agentWorld() (adapter.World, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return adapter.World{}, fmt.Errorf("find the home directory: %w", err)
	}
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return adapter.World{}, fmt.Errorf("find the working directory: %w", err)
	}
	return adapter.World{Home: home, Dir: dir, Lookup: os.LookupEnv, ReadFile: daemon.ReadRegular}, nil
}

func toImported(plan adopt.Plan, all []adapter.Own) imported {
	r := imported{Skipped: plan.Skipped}
	for _, s := range plan.Servers {
		if s.Held == "" {
			r.Servers = append(r.Servers, importedServer{s.Key, s.Cmd, s.Args, control.OrNull(s.Workdir), s.Variables(), s.Enabled, s.Sources})
		}
	}
	for _, own := range all {
		for _, f := range own.Faults {
			r.Errors = append(r.Errors, control.Fault{File: f.File, Line: control.OrNull(f.Line), Message: f.Message})
		}
	}
	return r
}

// reportImport says what was found where, and what of it is left out and why.
func reportImport(w io.Writer, all []adapter.Own, plan adopt.Plan, r imported) {
	for _, own := range all {
		if len(own.Files) == 0 {
			fmt.Fprintf(w, "%s: no servers; looked for them in %s\n", own.Agent, plain.Text(strings.Join(own.Looked, ", ")))
			continue
		}
		fmt.Fprintf(w, "%s: %s in %s\n", own.Agent, counted(len(own.Servers), "server"), plain.Text(strings.Join(own.Files, ", ")))
	}
	printFaults(w, "", r.Errors)
	var warnings []control.Fault
	for _, s := range plan.Skipped {
		warnings = append(warnings, control.Fault{File: s.File, Key: &s.Name, Message: "left out: " + s.Reason})
	}
	for _, n := range plan.Notes {
		warnings = append(warnings, control.Fault{File: n.File, Key: &n.Name, Message: n.Reason})
	}
	printFaults(w, "warning: ", warnings)
}

// runTwice is what is left to do once a file is in force.
const runTwice = "; then take these servers out of the agents' own settings, or they run twice"

// showImport prints the file whose env_files would be in dir.
func showImport(cmd *cobra.Command, plan adopt.Plan, dir string) error {
	if _, err := io.WriteString(cmd.OutOrStdout(), plan.TOML(dir)); err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "next: `harness import -o FILE` writes it, with the values of env; check it with `harness validate FILE`"+runTwice)
	return nil
}

// saveImport writes all files, and says what to do with them.
func saveImport(w io.Writer, plan adopt.Plan, global, file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("find the file to write: %w", err)
	}
	names, err := writeImport(plan, path)
	if err != nil {
		return err
	}
	check := "harness validate"
	if path != global {
		check += " " + path
	}
	fmt.Fprintf(w, "wrote %s\nnext: `%s`%s\n", plain.Text(strings.Join(names, ", ")), plain.Text(check), runTwice)
	return nil
}

// writeImport writes a harness.toml and its env_files, none of which may exist,
// and returns their paths. What it wrote is gone again where it cannot write all.
func writeImport(plan adopt.Plan, path string) (written []string, err error) {
	dir := filepath.Dir(path)
	texts := map[string][]byte{path: []byte(plan.TOML(dir))}
	order := []string{} // the file that names the others comes last
	for _, s := range plan.Servers {
		if name, text, ok := s.EnvFile(); ok {
			env := filepath.Join(dir, name)
			if texts[env] != nil {
				return nil, fmt.Errorf("%s would be both the config and an env_file of it; give it another name", env)
			}
			texts[env] = text
			order = append(order, env)
		}
	}
	order = append(order, path)
	const hint = "move it away, or name another file with -o"
	for _, name := range order {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				return nil, fmt.Errorf("look for what is there: %w", err)
			}
			return nil, existsError(name, hint)
		}
	}
	for _, name := range order {
		if err := writeNew(name, texts[name], hint); err != nil {
			for _, one := range written {
				err = errors.Join(err, os.Remove(one))
			}
			return nil, err
		}
		written = append(written, name)
	}
	slices.Reverse(written)
	return written, nil
}
