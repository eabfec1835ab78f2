package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"

	"harness/pkg/config"
)

// followed is one config file that shapes the running state, and what is kept
// of it: each is judged, and has its last good text, for itself (CFG-4).
type followed struct {
	path string
	kind config.Kind
	env  config.Env

	good    []byte         // last good text, nil when there was none
	base    *config.Config // of good; nil also where good does not validate any more
	spoiled config.Faults  // why it does not

	// judged is the text that was validated last, and the outcome. A config is
	// never written to, so it may be given out again.
	judged struct {
		text     []byte
		cfg      *config.Config
		warnings config.Warnings
		faults   config.Faults
	}
}

// newFollowed returns a file that goes on from the last good text that an
// earlier daemon kept, which is nil for none (CFG-3), and why that is not good
// any more.
func newFollowed(path string, kind config.Kind, good []byte, env config.Env) (*followed, config.Faults) {
	f := &followed{path: path, kind: kind, env: env, good: good}
	if good == nil {
		return f, nil
	}
	f.base, _, f.spoiled = config.Load(f.source(good), env)
	return f, f.spoiled
}

// outcome is what a file held at one moment, judged.
type outcome struct {
	of       *followed
	text     []byte
	cfg      *config.Config // to follow: of the text, or what stands in for it
	accepted bool           // cfg is of the text
	known    bool           // cfg is of a text, if not of this one
	faults   config.Faults  // why the text was refused
	warnings config.Warnings
}

// judge validates text, or takes err for why there is none, and decides what to
// follow: its config where it is accepted, else the last good one (CFG-2), else
// an empty one.
func (f *followed) judge(text []byte, err error) outcome {
	o := outcome{of: f, text: text}
	o.cfg, o.warnings, o.faults = f.parse(text, err)
	if o.accepted = len(o.faults) == 0; !o.accepted {
		o.faults = append(slices.Clip(o.faults), f.unusable()...)
	}
	o.known = o.accepted || f.base != nil
	switch {
	case o.accepted:
	case f.base != nil:
		o.cfg = f.base
	default:
		o.cfg, _, _ = config.Load(f.source(nil), f.env)
	}
	return o
}

// refused is the outcome after a fault that judging the text alone did not find.
func (o outcome) refused(fault config.Fault) outcome {
	o.faults, o.accepted, o.known = append(o.faults, fault), false, o.of.base != nil
	if o.cfg = o.of.base; o.cfg == nil {
		o.cfg, _, _ = config.Load(o.of.source(nil), o.of.env)
	}
	return o
}

// unusable says why there is no last good config to go on with although there
// was one. Its lines are not those of the file, which is another text.
func (f *followed) unusable() config.Faults {
	if f.base != nil || f.good == nil {
		return nil
	}
	var out config.Faults
	for _, fault := range f.spoiled {
		out = append(out, config.Fault{File: f.path, Key: fault.Key, Message: "the last good config cannot be used any more: " + fault.Message})
	}
	return out
}

// adopt makes the outcome the last good one if it was accepted, and reports
// whether its text has to be kept.
func (f *followed) adopt(o outcome) (fresh bool) {
	if !o.accepted {
		return false
	}
	fresh = f.good == nil || !bytes.Equal(f.good, o.text)
	f.good, f.base = o.text, o.cfg
	return fresh
}

// parse validates text, or says why there is none. A file that is missing or
// empty is no empty fleet once there was one with something in it (CFG-2).
func (f *followed) parse(text []byte, err error) (*config.Config, config.Warnings, config.Faults) {
	at := func(message string) config.Faults {
		return config.Faults{{File: f.path, Message: message}}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.good == nil:
		return nil, nil, at("no such file; write one with `harness init`")
	case errors.Is(err, fs.ErrNotExist) && f.base == nil:
		return nil, nil, at("the file is gone")
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, at("the file is gone; the last good one stays in force")
	case err != nil:
		return nil, nil, at("not readable: " + bare(err).Error())
	}
	cfg, warnings, faults := f.validated(text)
	if len(faults) == 0 && cfg.Empty && f.good != nil && (f.base == nil || !f.base.Empty) {
		return nil, nil, at("the file is empty; a comment in it means no servers, an empty file is taken for an accident")
	}
	return cfg, warnings, faults
}

// validated is config.Load, done once for a text that two readings agree on:
// the second one is only there to see that the file has settled.
func (f *followed) validated(text []byte) (*config.Config, config.Warnings, config.Faults) {
	if f.judged.cfg == nil && len(f.judged.faults) == 0 || !bytes.Equal(f.judged.text, text) {
		f.judged.text = text
		f.judged.cfg, f.judged.warnings, f.judged.faults = config.Load(f.source(text), f.env)
	}
	return f.judged.cfg, f.judged.warnings, f.judged.faults
}

func (f *followed) source(text []byte) config.Source {
	return config.Source{Path: f.path, Data: text, Kind: f.kind}
}
