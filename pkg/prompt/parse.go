package prompt

import "bytes"

// Parse makes a prompt from the content of a file, whose base name without the
// extension is the prompt's name. file is used as it is in faults and in
// Prompt.File; whether its name is one that Matches is the caller's to ask.
//
// A fault means that the file is to be skipped, and no prompt is returned; of
// several the first in the file is. Warnings are in the order of lines and may
// come with either. The prompt keeps data, which must not change afterwards.
func Parse(file string, data []byte) (p *Prompt, warnings []Fault, fault *Fault) {
	r := &report{file: file}
	p = parse(r, data)
	return p, r.warnings, nil
}

func parse(r *report, data []byte) *Prompt {
	p := &Prompt{Name: nameOf(r.file), File: r.file, Body: bytes.TrimPrefix(data, []byte("\ufeff"))}
	p.Digest = digest(p)
	return p
}
