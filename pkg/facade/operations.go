package facade

// The names of the tools over operations that are done once (MUT-1).
const (
	PackValidate     = "harness_pack_validate"
	WorktreeCreate   = "harness_worktree_create"
	RunLaunch        = "harness_run_launch"
	WorkflowValidate = "harness_workflow_validate"
	WorkflowStart    = "harness_workflow_start"
	WorkflowStatus   = "harness_workflow_status"
	WorkflowResume   = "harness_workflow_resume"
	MessageProgress  = "harness_message_progress"
	MessageSteer     = "harness_message_steer"
	MessageAck       = "harness_message_ack"
)

// Operations of the command line about sessions of contracts that it runs: one
// begins to be shown as a run, is held by the process that runs it, and ends.
const (
	ContractBegin = "contract_begin"
	ContractHold  = "contract_hold"
	ContractEnd   = "contract_end"
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
	aWorkflowID  = `{"type":"string","description":"the id of one workflow, as harness_workflow_start gives it"}`
	aFlowFile    = `{"type":"string","description":"or the file of the workflow: the newest one that was started from it"}`
	aName        = `{"type":"string","minLength":1,"maxLength":64}`
	aGitRef      = `{"type":"string","minLength":1,"maxLength":200}`
)

// operations are the tools whose arguments the operation reads itself.
func operations() []tool {
	all := []tool{
		{
			name: PackValidate, does: "Check a prompt pack: its files, sizes, digests and the order of its tickets.",
			takes: map[string]string{"dir": aPath}, needs: []string{"dir"},
		},
		{
			name: WorktreeCreate, does: "Make a git worktree of a repository, on a branch of its own.", write: true,
			takes: map[string]string{"repo": aPath, "name": aName, "base": aGitRef, "branch": aGitRef, "idempotency_key": aKey}, needs: []string{"repo", "name", "idempotency_key"},
		},
		{
			name: RunLaunch, does: "Launch one bounded run of a harness of the config, and answer once it runs. Its state is the resource harness://runs/{id}/status.", write: true,
			takes: map[string]string{"name": aHarness, "role": aRole, "prompt_file": aPath, "timeout": aTimeout, "idempotency_key": aKey}, needs: []string{"name", "idempotency_key"},
		},
		{
			name: WorkflowValidate, does: "Check a workflow, a TOML graph of runs and approvals, and list its nodes.",
			takes: map[string]string{"file": aPath}, needs: []string{"file"},
		},
		{
			name: WorkflowStart, does: "Start a workflow. Its runs go on by themselves; nodes that are approvals wait.", write: true,
			takes: map[string]string{"file": aPath, "idempotency_key": aKey}, needs: []string{"file", "idempotency_key"},
		},
		{
			name: WorkflowStatus, does: "Show how far a workflow is.",
			takes: map[string]string{"id": aWorkflowID, "file": aFlowFile},
		},
		{
			name: WorkflowResume, does: "Go on with a workflow that failed or was interrupted. Nodes that are finished do not run again; approvals are the operator's to give.", write: true,
			takes: map[string]string{"id": aWorkflowID, "file": aFlowFile, "idempotency_key": aKey}, needs: []string{"idempotency_key"},
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
