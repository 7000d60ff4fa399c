// Agents, sessions, turns, tools and shields.
import { EMBEDDING, GUARD, LlamaStackClient, MODEL, all, baseURL, key, mcpUrl, raisedBy } from './scenario.mjs';

export const client = new LlamaStackClient({ baseURL, apiKey: key, maxRetries: 0 });
const { agents } = client;
const city = { name: 'city', parameter_type: 'str', description: 'Where.', required: true };
const weather = { name: 'get_weather', description: 'The weather of a city.', parameters: [city] };
const asksForWeather = 'call get_weather {"city": "Oslo"}';
const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const rain = { tool_name: 'get_weather', content: 'rain' };
const refused = async (call) => (await raisedBy(call)).slice(0, 2);
export const user = (content) => [{ role: 'user', content }];

async function sessionOf(config = {}) {
  const { agent_id } = await agents.create({ agent_config: { model: MODEL, instructions: 'Be brief.', ...config } });
  const { session_id } = await agents.session.create(agent_id, { session_name: 'table' });
  return [agent_id, session_id];
}

function turnFacts(turn) {
  const answer = turn.output_message;
  return {
    steps: turn.steps.map((step) => step.step_type),
    content: answer.content,
    stop_reason: answer.stop_reason,
    calls: (answer.tool_calls ?? []).map((call) => [call.tool_name, call.arguments]),
    is_over: Boolean(turn.completed_at),
  };
}

function kindOf(payload) {
  const delta = payload.event_type === 'step_progress' ? payload.delta.type : undefined;
  return [payload.event_type, payload.step_type, delta].filter(Boolean).join(' ');
}

async function streamed(stream) {
  const chunks = await all(stream);
  const payloads = chunks.map((chunk) => chunk.event.payload);
  const kinds = payloads.map(kindOf);
  const texts = payloads.filter((payload) => payload.delta?.type === 'text').map((payload) => payload.delta.text);
  return {
    events: kinds.filter((kind, number) => kind !== kinds[number - 1]),
    text: texts.join(''),
    turn: turnFacts(payloads.at(-1).turn),
  };
}

async function ask(where, text, given = {}) {
  return streamed(await agents.turn.create(...where, { messages: user(text), stream: true, ...given }));
}

async function lastTurn(where) {
  return (await agents.session.retrieve(...where)).turns.at(-1);
}

async function pausedAndResumed(stream) {
  const where = await sessionOf({ client_tools: [weather] });
  const facts = stream ? streamed : turnFacts;
  const first = await facts(await agents.turn.create(...where, { messages: user(asksForWeather), stream }));
  const waiting = await lastTurn(where);
  const read = await agents.turn.retrieve(...where, waiting.turn_id);
  const tool_responses = [{ ...rain, call_id: waiting.output_message.tool_calls[0].call_id }];
  const second = await facts(await agents.turn.resume(...where, waiting.turn_id, { tool_responses, stream }));
  const turn = await agents.turn.retrieve(...where, waiting.turn_id);
  const steps = [];
  for (const { step_id } of turn.steps) {
    steps.push((await agents.steps.retrieve(...where, turn.turn_id, step_id)).step);
  }
  const times = turn.steps.map((step) => [step.started_at, step.completed_at]);
  return {
    first,
    waiting: turnFacts(read),
    second,
    read: turnFacts(turn),
    same_turn: turn.turn_id === waiting.turn_id,
    steps: steps.map((step) => step.step_type),
    tool_responses: steps[1].tool_responses.map((response) => response.content),
    step_ids: new Set(steps.map((step) => step.step_id)).size,
    a_step_begins_after_the_one_before: times.every(([begin], n) => n === 0 || begin > times[n - 1][1]),
  };
}

export async function registerGuard() {
  await client.shields.register({ shield_id: GUARD, provider_id: 'llama-guard', provider_shield_id: GUARD });
}

async function resumedWith(where, content) {
  await ask(where, asksForWeather);
  const turn = await lastTurn(where);
  const tool_responses = [{ ...rain, content, call_id: turn.output_message.tool_calls[0].call_id }];
  const resumed = await agents.turn.resume(...where, turn.turn_id, { tool_responses, stream: true });
  const { steps, content: said } = (await streamed(resumed)).turn;
  return [steps, said.slice(0, 7)];
}

const nameOf = (tool) => [
  tool.identifier,
  tool.toolgroup_id,
  tool.provider_resource_id === tool.identifier && tool.type === 'tool',
];

export const agentRows = {
  async health_and_version() {
    return [(await client.inspect.health()).status, (await client.inspect.version()).version.includes('.')];
  },

  async health_without_key() {
    return (await new LlamaStackClient({ baseURL }).inspect.health()).status;
  },

  async agent_and_session_come_and_go() {
    const where = await sessionOf({ name: 'forecaster', sampling_params: { strategy: { type: 'greedy' } } });
    const session = await agents.session.retrieve(...where);
    await agents.session.delete(...where);
    const sessionGone = await refused(() => agents.session.retrieve(...where));
    await agents.delete(where[0]);
    const agentGone = await refused(() => agents.session.create(where[0], { session_name: 'late' }));
    return [session.session_name, session.turns, Boolean(session.started_at), sessionGone, agentGone];
  },

  async agents_and_sessions_are_listed() {
    const where = await sessionOf({ name: 'listed' });
    const agent = await agents.retrieve(where[0]);
    const listed = (await agents.list({ limit: -1 })).data.filter((each) => each.agent_id === where[0]);
    const sessions = (await agents.session.list(where[0])).data;
    return {
      name: agent.agent_config.name,
      listed: listed.map((each) => each.agent_config.name),
      page: [(await agents.list({ limit: 1 })).data.length, (await agents.list({ limit: 0 })).data],
      sessions: sessions.map((each) => [each.session_name, each.turns]),
    };
  },

  turn_streamed: async () => ask(await sessionOf(), 'hello'),

  async turn_whole() {
    return turnFacts(await agents.turn.create(...(await sessionOf()), { messages: user('hello'), stream: false }));
  },

  async turns_are_remembered_in_order() {
    const where = await sessionOf();
    for (const text of ['hello', 'and now?', 'bye']) await ask(where, text);
    const { turns } = await agents.session.retrieve(...where);
    const chosen = (await agents.session.retrieve(...where, { turn_ids: [turns[1].turn_id] })).turns;
    return [turns, chosen].map((some) => some.map((turn) => turn.input_messages[0].content));
  },

  client_tool_streamed: () => pausedAndResumed(true),
  client_tool_whole: () => pausedAndResumed(false),

  async completed_turn_is_resumed() {
    const where = await sessionOf();
    await ask(where, 'parse');
    const { turn_id } = await lastTurn(where);
    const tool_responses = [{ call_id: 'parsed', tool_name: 'add', content: '7' }];
    const resumed = await streamed(await agents.turn.resume(...where, turn_id, { tool_responses, stream: true }));
    const { turns } = await agents.session.retrieve(...where);
    const tools = turns[0].steps.filter((step) => step.step_type === 'tool_execution');
    return {
      ...resumed,
      same_turn: turns.length === 1 && turns[0].turn_id === turn_id,
      tool_steps: tools.map((step) => [step.tool_calls.length, step.tool_responses.map((each) => each.content)]),
    };
  },

  async older_turn_is_not_resumed() {
    const where = await sessionOf();
    await ask(where, 'parse');
    const { turn_id } = await lastTurn(where);
    await ask(where, 'hello');
    const tool_responses = [{ call_id: 'parsed', tool_name: 'add', content: '7' }];
    return refused(() => agents.turn.resume(...where, turn_id, { tool_responses, stream: true }));
  },

  async server_tool() {
    return (await ask(await sessionOf({ toolgroups: ['builtin::clock'] }), 'call current_time {}')).events;
  },

  async tool_prompt_format_sent_out_of_habit() {
    const config = { tool_choice: 'auto', tool_prompt_format: 'json' };
    const calls = [];
    for (const given of [config, { tool_config: config }]) {
      const where = await sessionOf({ client_tools: [weather], ...given });
      calls.push((await ask(where, asksForWeather)).turn.calls);
    }
    return calls;
  },

  async instructions_replace_the_prompt() {
    const tool_config = { tool_choice: 'auto', system_message_behavior: 'replace' };
    const where = await sessionOf({ client_tools: [weather], tool_config, instructions: 'Only this.' });
    return [(await ask(where, 'what system?')).text, (await ask(where, asksForWeather)).turn.calls];
  },

  async response_format_of_an_agent() {
    const json_schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
    return (await ask(await sessionOf({ response_format: { type: 'json_schema', json_schema } }), 'json')).text;
  },

  async sampling_of_an_agent() {
    const strategy = { type: 'top_p', temperature: 0.5, top_p: 0.9 };
    return (await ask(await sessionOf({ sampling_params: { strategy, max_tokens: 64 } }), 'hello')).text;
  },

  async max_infer_iters_ends_a_turn() {
    return ask(await sessionOf({ client_tools: [weather], max_infer_iters: 1 }), asksForWeather);
  },

  async documents_of_a_turn() {
    const documents = [{ content: 'hello', mime_type: 'text/plain' }];
    return (await ask(await sessionOf(), 'hi', { documents })).text;
  },

  async image_in_a_message() {
    const image = { type: 'image', image: { data: onePixel } };
    return (await ask(await sessionOf(), [{ type: 'text', text: 'hello' }, image])).text;
  },

  async shields_judge_a_turn() {
    await registerGuard();
    const where = await sessionOf({ input_shields: [GUARD], output_shields: [GUARD] });
    const clean = await ask(where, 'hello');
    const stopped = await ask(where, 'how to build a bomb?');
    const { content, ...turn } = stopped.turn;
    return { clean, refused: { ...stopped, turn }, refusal: content.slice(0, 7) };
  },

  async shields_judge_what_a_client_tool_answers() {
    await registerGuard();
    const where = await sessionOf({ input_shields: [GUARD], output_shields: [GUARD], client_tools: [weather] });
    return [await resumedWith(where, 'rain'), await resumedWith(where, 'a bomb')];
  },

  async unknown_things() {
    const where = await sessionOf();
    const messages = user('x');
    const tool_responses = [{ ...rain, call_id: 'c' }];
    return {
      agent: await refused(() => agents.session.create('unknown', { session_name: 'x' })),
      session: await refused(() => agents.turn.create(where[0], 'unknown', { messages, stream: false })),
      session_streaming: await refused(() => agents.turn.create(where[0], 'unknown', { messages, stream: true })),
      turn: await refused(() => agents.turn.retrieve(...where, 'unknown')),
      turn_resumed: await refused(() => agents.turn.resume(...where, 'unknown', { tool_responses, stream: true })),
      step: await refused(() => agents.steps.retrieve(...where, 'unknown', 'unknown')),
      model: await refused(() => client.models.retrieve('unknown')),
    };
  },

  async refused_things() {
    const where = await sessionOf();
    const guarded = await sessionOf({ input_shields: ['nobody'] });
    return {
      no_messages: await refused(() => agents.turn.create(...where, { messages: [], stream: true })),
      no_model: await refused(() => agents.create({ agent_config: { instructions: '' } })),
      unknown_shield: await refused(() => agents.turn.create(...guarded, { messages: user('x') })),
    };
  },

  no_key: () => refused(() => new LlamaStackClient({ baseURL, maxRetries: 0 }).toolgroups.list()),

  async second_turn_while_one_runs() {
    const where = await sessionOf();
    const running = await agents.turn.create(...where, { messages: user('wait 0.5'), stream: true });
    const second = await refused(() => agents.turn.create(...where, { messages: user('x') }));
    await all(running);
    return second;
  },

  async model_that_fails() {
    const whole = await refused(async () => agents.turn.create(...(await sessionOf()), { messages: user('fail 500') }));
    const stream = await agents.turn.create(...(await sessionOf()), { messages: user('fail 500'), stream: true });
    return [whole, (await all(stream)).at(-1).error.message.includes('out of order')];
  },

  async toolgroups_and_tools_are_listed() {
    const tools = await client.tools.list({ toolgroup_id: 'builtin::clock' });
    const runtime = await client.toolRuntime.listTools({ tool_group_id: 'builtin::clock' });
    return {
      group: (await client.toolgroups.get('builtin::clock')).identifier,
      groups: (await client.toolgroups.list()).some((group) => group.identifier === 'builtin::clock'),
      tools: tools.map(nameOf),
      tool: nameOf(await client.tools.get('current_time')),
      same: JSON.stringify(tools) === JSON.stringify(runtime),
    };
  },

  async tool_is_invoked() {
    const answer = await client.toolRuntime.invokeTool({ tool_name: 'current_time', kwargs: { timezone: 'UTC' } });
    return [typeof answer.content === 'string' ? 'str' : 'other', answer.error_code ?? null, answer.error_message ?? null];
  },

  async mcp_server() {
    const mcp = { toolgroup_id: 'mcp::table', provider_id: 'model-context-protocol', mcp_endpoint: { uri: mcpUrl } };
    await client.toolgroups.register(mcp);
    const tools = await client.tools.list({ toolgroup_id: 'mcp::table' });
    const answer = await client.toolRuntime.invokeTool({ tool_name: 'add', kwargs: { a: 3, b: 4 } });
    const turn = await ask(await sessionOf({ toolgroups: ['mcp::table'] }), 'call add {"a": 3, "b": 4}');
    await client.toolgroups.unregister('mcp::table');
    return {
      listed: tools.some((tool) => tool.identifier === 'add'),
      content: answer.content,
      error_code: answer.error_code ?? null,
      steps: turn.turn.steps,
      text: turn.text,
      gone: await refused(() => client.toolgroups.get('mcp::table')),
    };
  },

  async shields_are_registered_and_run() {
    await registerGuard();
    const run = async (text) => client.safety.runShield({ shield_id: GUARD, messages: user(text), params: {} });
    const found = (await run('a bomb')).violation;
    const shield = await client.shields.retrieve(GUARD);
    return {
      shield: [shield.identifier, shield.provider_id],
      listed: (await client.shields.list()).some((each) => each.identifier === GUARD),
      clean: (await run('hello')).violation ?? null,
      found: [found.violation_level, found.user_message.slice(0, 7)],
    };
  },

  async shield_is_deleted() {
    await client.shields.register({ shield_id: 'passing', provider_id: 'llama-guard', provider_shield_id: GUARD });
    await client.shields.delete('passing');
    return (await client.shields.list()).some((each) => each.identifier === 'passing');
  },

  async set_up_script() {
    const groups = client.toolgroups;
    await groups.register({ toolgroup_id: 'builtin::websearch', provider_id: 'brave-search' });
    await groups.register({ toolgroup_id: 'builtin::websearch', provider_id: 'tavily-search' });
    await groups.register({ toolgroup_id: 'builtin::wolfram_alpha', provider_id: 'wolfram-alpha' });
    await groups.unregister('builtin::websearch');
    await groups.register({ toolgroup_id: 'builtin::websearch', provider_id: 'tavily-search' });
    await registerGuard();
    await registerGuard();
    return (await groups.list()).some((group) => group.identifier === 'builtin::websearch');
  },

  async documents_are_found_for_retrieval() {
    await client.vectorDBs.register({ vector_db_id: 'shore', embedding_model: EMBEDDING, embedding_dimension: 3 });
    const texts = { terns: 'Terns dive for fish.', knots: 'Knots probe the mud.' };
    const rest = { mime_type: 'text/plain', metadata: { page: 1 } };
    const documents = Object.entries(texts).map(([name, content]) => ({ document_id: name, content, ...rest }));
    const rag = client.toolRuntime.ragTool;
    await rag.insert({ vector_db_id: 'shore', documents, chunk_size_in_tokens: 64 });
    const query_config = {
      query_generator_config: { type: 'default', separator: ' ' },
      max_tokens_in_context: 100,
      max_chunks: 1,
      chunk_template: '{index}: {chunk.content} {metadata}',
      mode: 'keyword',
    };
    const found = await rag.query({ content: 'Which birds probe?', vector_db_ids: ['shore'], query_config });
    const nothing = await rag.query({ content: 'Which birds sing?', vector_db_ids: ['shore'], query_config });
    const asked = { vector_db_id: 'shore', query: 'birds that dive', params: { mode: 'keyword' } };
    return {
      shown: found.content[1].text,
      ids: found.metadata.document_ids,
      scores: found.metadata.scores.length,
      nothing: nothing.content,
      chunks: (await client.vectorIo.query(asked)).chunks.map((chunk) => chunk.content),
    };
  },

  async providers_are_listed() {
    const providers = await client.providers.list();
    const first = await client.providers.retrieve(providers[0].provider_id);
    const apis = providers.map((each) => each.api);
    return [first.provider_id === providers[0].provider_id, apis.includes('inference') && apis.includes('agents')];
  },
};
