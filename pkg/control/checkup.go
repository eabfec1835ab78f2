package control

// The marks of a [Check].
const (
	CheckOK      = "ok"
	CheckWarning = "warning"
	CheckFailure = "failure"
)

// Checkup is the answer of "harness doctor --json".
type Checkup struct {
	// Status is that of the worst check.
	Status string `json:"status"`
	// Path is the PATH that commands are looked up in.
	Path      string      `json:"path"`
	Checks    List[Check] `json:"checks"`
	Harnesses List[Wired] `json:"harnesses"`
}

// Check is one thing that was looked at.
type Check struct {
	// Name is what it is about: "daemon", "config", "path", "state", "socket",
	// "watch", or a table or key of a file such as "mcp.gitea.cmd".
	Name    string  `json:"name"`
	Status  string  `json:"status"` // "ok", "warning" or "failure"
	Message string  `json:"message"`
	Hint    *string `json:"hint"` // what to do about it
}

// Wired says how the agent of one harness gets the endpoint (WHO-4).
type Wired struct {
	Name    string `json:"name"`
	Adapter string `json:"adapter"`
	Wired   bool   `json:"wired"`
	How     string `json:"how"`
	// Paste is what gives it the endpoint by hand, and Into where that goes;
	// null where it needs nothing.
	Paste *string `json:"paste"`
	Into  *string `json:"into"`
}

// Add appends a check; the worst of all is the checkup's status.
func (c *Checkup) Add(name, status, message, hint string) {
	c.Checks = append(c.Checks, Check{Name: name, Status: status, Message: message, Hint: OrNull(hint)})
	rank := map[string]int{CheckOK: 0, CheckWarning: 1, CheckFailure: 2}
	if c.Status == "" || rank[status] > rank[c.Status] {
		c.Status = status
	}
}
