package fakeup

import (
	"flag"
	"io"
	"slices"
	"strings"
	"time"
)

// options is how one fake upstream behaves.
type options struct {
	startDelay  time.Duration // before initialize is answered, unless startMarker exists
	startGate   string        // wait until this file exists
	startMarker string        // made once a delayed start got through; a kill before that starts over
	banner      string        // printed, with an empty line, before initialize is answered
	stderrFirst int           // bytes to stderr before initialize is answered
	exitOn      methods
	mute        methods
	refuse      methods

	name string

	toolsFile     string
	promptsFile   string
	resourcesFile string
	templatesFile string
	completes     bool
	logs          bool

	count        int
	page         int
	storm        bool
	instructions string

	noise       bool
	resultFirst bool
	readDelay   time.Duration

	ignoreEOF  bool
	ignoreTerm bool
	heir       bool
	family     bool
	linger     bool // the role of a child of -heir and -family

	record string
}

// methods is a flag that may be given more than once.
type methods []string

func (m *methods) String() string { return strings.Join(*m, ",") }

// Set adds one method.
func (m *methods) Set(s string) error {
	*m = append(*m, s)
	return nil
}

func (m methods) has(method string) bool { return slices.Contains(m, method) }

// parse reads the command line; what it does not know is reported to usage.
func parse(args []string, usage io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet(Name, flag.ContinueOnError)
	f.SetOutput(usage)
	f.DurationVar(&o.startDelay, "start-delay", 0, "wait before answering initialize")
	f.StringVar(&o.startGate, "start-gate", "", "wait for this file before answering initialize")
	f.StringVar(&o.startMarker, "start-marker", "", "delay only while this file does not exist")
	f.StringVar(&o.banner, "banner", "", "print this before answering initialize")
	f.IntVar(&o.stderrFirst, "stderr-first", 0, "bytes to stderr before answering initialize")
	f.Var(&o.exitOn, "exit-on", "exit with code 1 when this method arrives")
	f.Var(&o.mute, "mute", "never answer this method")
	f.Var(&o.refuse, "refuse", "answer this method with an error")
	f.StringVar(&o.name, "name", "fake", "what it calls itself, also in what it has to read")
	f.StringVar(&o.toolsFile, "tools", "", "file with a JSON array of tools, followed live")
	f.StringVar(&o.promptsFile, "prompts", "", "file with a JSON array of prompts, followed live")
	f.StringVar(&o.resourcesFile, "resources", "", "file with a JSON array of resources, followed live")
	f.StringVar(&o.templatesFile, "templates", "", "file with a JSON array of resource templates, followed live")
	f.BoolVar(&o.completes, "completion", false, "complete arguments")
	f.BoolVar(&o.logs, "logging", false, "take a level for log messages")
	f.IntVar(&o.count, "count", 0, "offer this many tools named t0000 and so on")
	f.IntVar(&o.page, "page", 0, "items on a page of a list; 0: all")
	f.BoolVar(&o.storm, "storm", false, "list_changed after every tools/list")
	f.StringVar(&o.instructions, "instructions", "", "instructions of initialize")
	f.BoolVar(&o.noise, "noise", false, "a line of junk before every message")
	f.BoolVar(&o.resultFirst, "result-first", false, "result before id in every answer")
	f.DurationVar(&o.readDelay, "read-delay", 0, "wait before reading each line")
	f.BoolVar(&o.ignoreEOF, "ignore-eof", false, "live on without stdin")
	f.BoolVar(&o.ignoreTerm, "ignore-term", false, "ignore SIGTERM")
	f.BoolVar(&o.heir, "heir", false, "leave a child that holds the pipes")
	f.BoolVar(&o.family, "family", false, "have a child in the group and one in a session of its own")
	f.BoolVar(&o.linger, "linger", false, "do nothing, for ever")
	f.StringVar(&o.record, "record", "", "append what happens to this file")
	return o, f.Parse(args)
}
