package adopt

import (
	"maps"
	"path"
	"slices"
	"strings"

	"harness/pkg/adapter"
	"harness/pkg/config"
)

// translate spells an agent's entry as harness.toml does. notes say what is not
// taken over, problem why nothing can be.
func translate(own adapter.OwnServer, env config.Env) (s Server, notes []string, problem string) {
	t := translator{env: env, notes: slices.Clone(own.Notes)}
	s = Server{
		Cmd: t.path("command", own.Cmd, own.Dir, false), Workdir: t.path("cwd", own.Workdir, own.Dir, true), Enabled: own.Enabled,
		StartTimeout: own.StartTimeout, CallTimeout: own.CallTimeout, Allow: globs(own.Allow), Deny: globs(own.Deny),
		Sources: []Source{{own.Agent, own.File, own.Name}}, Env: map[string]string{}, sure: len(own.Workdir) > 0,
	}
	if own.Project && !s.sure {
		s.Workdir = config.Literal(own.Dir)
	}
	for _, word := range own.Args {
		s.Args = append(s.Args, t.spell("args", word))
	}
	for _, name := range slices.Sorted(maps.Keys(own.Env)) {
		t.variable(&s, name, own.Env[name])
	}
	return s, t.notes, t.problem
}

type translator struct {
	env     config.Env
	notes   []string
	problem string
}

// spell writes a word so that a file says it.
func (t *translator) spell(what string, word adapter.Text) string {
	var b strings.Builder
	for _, part := range word {
		switch {
		case !part.Variable:
			b.WriteString(config.Literal(part.Text))
		case strings.HasSuffix(b.String(), "$"):
			t.problem = what + " has a $ before a variable, which harness.toml cannot say"
		default:
			b.WriteString("${" + part.Text + "}")
		}
	}
	return b.String()
}

// path spells one, absolute; what has no slash is a name to be looked up, unless
// it is a directory.
func (t *translator) path(what string, word adapter.Text, dir string, directory bool) string {
	text := t.spell(what, word)
	if text == "" || word[0].Variable || path.IsAbs(text) || text == "~" || strings.HasPrefix(text, "~/") || !directory && !strings.Contains(text, "/") {
		return text
	}
	return path.Join(config.Literal(dir), text)
}

// variable puts one where it belongs: a name into the table, a value into the
// env_file, which knows no variables.
func (t *translator) variable(s *Server, name string, word adapter.Text) {
	value, unset := t.value(word)
	v := config.EnvVar{Name: name, Value: config.Secret(value)}
	if problem := config.EnvProblem(v); problem != "" {
		t.notes = append(t.notes, "its variable "+name+" is left out: "+problem)
		return
	}
	if len(word) == 1 && word[0].Variable {
		s.Env[name] = "${" + word[0].Text + "}"
		return
	}
	for _, part := range word {
		if part.Variable && unset == "" {
			t.notes = append(t.notes, "its variable "+name+" has what ${"+part.Text+"} is now, and does not follow it")
		}
	}
	if unset != "" {
		t.notes = append(t.notes, "its variable "+name+" is left out: ${"+unset+"} is not set")
		return
	}
	s.Secrets = append(s.Secrets, v)
}

// value is what a word is now, and the first variable of it that is not set.
func (t *translator) value(word adapter.Text) (value, unset string) {
	var b strings.Builder
	for _, part := range word {
		text := part.Text
		if part.Variable {
			var ok bool
			if text, ok = t.env.Lookup(part.Text); !ok && unset == "" {
				unset = part.Text
			}
		}
		b.WriteString(text)
	}
	return b.String(), unset
}

// globs match tools by their names alone.
func globs(names []string) []string {
	if names == nil {
		return nil
	}
	escape := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)
	out := []string{}
	for _, name := range names {
		out = append(out, escape.Replace(name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
