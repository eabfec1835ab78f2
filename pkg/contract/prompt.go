package contract

import "harness/pkg/ledger"

// prompt is what work is told, as it was when somebody asked for the session: what
// is read once is what is noted and what the work gets.
type prompt struct {
	text string
	sum  *string // digest; nil where there is none, or it could not be read
	err  error   // why it could not be
}

// prompt reads what the work is told.
func (w *Work) prompt(root string) prompt {
	if w == nil || w.Prompt == "" && w.PromptFile == "" {
		return prompt{}
	}
	p := prompt{text: w.Prompt}
	if w.PromptFile != "" {
		data, err := readFile(root, w.PromptFile)
		if err != nil {
			return prompt{err: err}
		}
		p.text = string(data)
	}
	sum := ledger.SHA256([]byte(p.text))
	p.sum = &sum
	return p
}

// is reports whether the prompt is that of a digest, or both are none.
func (p prompt) is(sum *string) bool {
	if p.sum == nil || sum == nil {
		return p.sum == sum
	}
	return *p.sum == *sum
}
