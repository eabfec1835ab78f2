package facade

// The names of the tools over operations that are done once (MUT-1).
const (
	RunLaunch       = "harness_run_launch"
	MessageProgress = "harness_message_progress"
	MessageSteer    = "harness_message_steer"
	MessageAck      = "harness_message_ack"
)

// The schemas of their arguments.
const (
	aKey         = `{"type":"string","minLength":1,"maxLength":128,"description":"a name of your own for this request: a repeat with the same arguments returns the first result, and nothing is done twice"}`
	aRole        = `{"type":"string","enum":["orchestrator","implementation","review"]}`
	aPath        = `{"type":"string","description":"an absolute path under the daemon's roots or in a project that is up, without a symbolic link in it"}`
	aTimeout     = `{"type":"string","description":"how long the run may take, such as 10m (default 1h)"}`
	aRunID       = `{"type":"string","description":"the id of one run, as harness_run_launch or list_trajectories gives it"}`
	aBody        = `{"type":"string","minLength":1,"maxLength":32768}`
	aCorrelation = `{"type":"string","description":"the correlation_id of the message that is acknowledged"}`
)

// operations are the tools whose arguments the operation reads itself.
func operations() []tool {
	all := []tool{
		{
			name: RunLaunch, does: "Launch one bounded run of a harness of the config, and answer once it runs. Its state is the resource harness://runs/{id}/status.", write: true,
			takes: map[string]string{"name": aHarness, "role": aRole, "prompt_file": aPath, "timeout": aTimeout, "idempotency_key": aKey}, needs: []string{"name", "idempotency_key"},
		},
		{
			name: MessageProgress, does: "Note how far a run is.", write: true,
			takes: map[string]string{"run": aRunID, "body": aBody, "idempotency_key": aKey}, needs: []string{"run", "body", "idempotency_key"},
		},
		{
			name: MessageSteer, does: "Tell a run to do something else. It is pending until the run acknowledges it.", write: true,
			takes: map[string]string{"run": aRunID, "body": aBody, "idempotency_key": aKey}, needs: []string{"run", "body", "idempotency_key"},
		},
		{
			name: MessageAck, does: "Acknowledge a message to a run, by its correlation id.", write: true,
			takes: map[string]string{"run": aRunID, "correlation_id": aCorrelation, "idempotency_key": aKey}, needs: []string{"run", "correlation_id", "idempotency_key"},
		},
	}
	for i := range all {
		all[i].own = true
	}
	return all
}
