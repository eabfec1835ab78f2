package config

import "strings"

// suggest is the end of a message about an unknown word: the known one that
// was most likely meant, or nothing where no known one is near.
func suggest(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return ", did you mean " + show(near) + "?"
	}
	return ""
}

// nearest is the known word that takes the fewest typos to become word, or ""
// when even that takes too many. Case and the choice of - or _ count for
// nothing, and a word of another tool's configuration is translated. Of equals
// the first wins.
func nearest(word string, known []string) string {
	plain := fold(strings.ToLower(word))
	if own, ok := elsewhere(plain); ok {
		plain = own
	}
	best, least := "", 1+max(1, min(3, len(plain)/3))
	for _, k := range known {
		if d := distance(plain, fold(strings.ToLower(k))); d < least {
			best, least = k, d
		}
	}
	return best
}

// elsewhere translates what the configuration files of agents call a thing.
func elsewhere(word string) (own string, ok bool) {
	switch word {
	case "command":
		return "cmd", true
	case "cwd", "dir", "directory":
		return "workdir", true
	case "environment":
		return "env", true
	case "envfile":
		return "env_file", true
	case "timeout":
		return "call_timeout", true
	case "mcpservers", "mcp_servers", "servers":
		return "mcp", true
	case "agent", "agents", "harnesses":
		return "harness", true
	}
	return "", false
}

// distance is how far word is from the known one. A beginning of it is as near
// as one typo.
func distance(word, known string) int {
	if len(word) > 2 && word != known && strings.HasPrefix(known, word) {
		return 1
	}
	return typos(word, known)
}

// typos is the optimal string alignment distance of a and b: how many letters
// have to be inserted, dropped, replaced or swapped with their neighbour.
func typos(a, b string) int {
	if abs(len(a)-len(b)) > 3 { // too many whatever the letters are
		return len(a) + len(b)
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+differ(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}

func abs(n int) int {
	return max(n, -n)
}
