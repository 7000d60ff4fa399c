// The rows of the table for TypeScript's `llama-stack-client`, which has no Agent class. Arguments: see `scenario.py`.
import { agentRows } from './llama_stack_agents.mjs';
import { modelRows } from './llama_stack_models.mjs';
import { run } from './scenario.mjs';

await run({ ...agentRows, ...modelRows });
