// How the TypeScript client runs its rows: as `scenario.py` does. The environment's CLIENT is the folder it is installed in.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [baseURL, key, mcpUrl, ...names] = process.argv.slice(2);
export { baseURL, key, mcpUrl };
export const LlamaStackClient = createRequire(`${process.env.CLIENT}/`)('llama-stack-client').default;
export const MODEL = 'stub-llm';
export const GUARD = 'meta-llama/Llama-Guard-3-8B';
export const EMBEDDING = 'all-MiniLM-L6-v2';

// Return the class, status and message of what a call raises.
export async function raisedBy(call) {
  try {
    await call();
  } catch (error) {
    return [error.constructor.name, error.status ?? null, error.message];
  }
  return [null, null, 'nothing was raised'];
}

export async function all(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

async function outcomeOf(act) {
  try {
    return { facts: (await act()) ?? null };
  } catch (error) {
    return { raised: `${error.constructor.name}: ${error.message}`, traceback: error.stack };
  }
}

export async function run(rows) {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for (const name of names.length ? names : Object.keys(rows)) {
    process.stdout.write(JSON.stringify({ row: name, ...(await outcomeOf(rows[name])) }) + '\n');
    await lines.next();
  }
  process.exit(0);
}
