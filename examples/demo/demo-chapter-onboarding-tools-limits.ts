import {
  callDemoTool,
  onboardDemoAgent,
  expectRejectedDemoCall,
  type DemoAgent,
  type DemoContext,
} from './demo-context.ts'
import { printChapterTitle, printDemoOutputLine } from './demo-console-output.ts'

/** Two agents onboard; one refers the other. */
export async function runDemoOnboardingChapter(
  demo: DemoContext,
): Promise<{ mentor: DemoAgent; scout: DemoAgent }> {
  printChapterTitle('Two agents join')
  const mentor = await onboardDemoAgent(demo, 'mentor', 'a key, a wallet, starter credits')
  const { body } = await demo.request<{ referral_code: string }>(
    201,
    'POST /api/referrals/create',
    {
      key: mentor.key,
      json: {},
    },
  )
  const { referral_code: code } = body
  printDemoOutputLine({
    call: 'POST /api/referrals/create',
    status: 201,
    result: `mentor's code: ${code}`,
    cost: 0,
  })
  const scout = await onboardDemoAgent(demo, 'scout', 'the same, brought by mentor', {
    referral_code: code,
  })
  return { mentor, scout }
}

/** Free tools and tools that cost credits. */
export async function runDemoToolsChapter(
  demo: DemoContext,
  scout: DemoAgent,
  mentor: DemoAgent,
): Promise<void> {
  printChapterTitle('scout works')
  const prices = { tool: 'price_feed', query: 'BTC,ETH' }
  await callDemoTool(demo, scout, prices, {
    cost: 0,
    said: 'prices, from the free calls of the day',
  })
  await callDemoTool(
    demo,
    scout,
    { tool: 'hive_trending' },
    { cost: 0.005, said: 'what other agents read' },
  )
  const hello = { tool: 'agent_ping', target_agent_id: mentor.id, message: 'I am here.' }
  await callDemoTool(demo, scout, hello, { cost: 0.005, said: 'a message to mentor' })
}

/** A task with a budget and a Backpack with a fuse: calls beyond the limits are rejected. */
export async function runDemoLimitsChapter(demo: DemoContext, scout: DemoAgent): Promise<void> {
  printChapterTitle("scout's owner sets limits")
  const { key } = scout
  const task = { name: 'look around', budget_usdc: 0.01 }
  const { body } = await demo.request<{ task_id: string }>(200, 'POST /api/task/start', {
    key,
    json: task,
  })
  printDemoOutputLine({
    call: 'POST /api/task/start',
    status: 200,
    result: 'a task with a budget of 0.01',
  })
  const inTask = { headers: { 'x-task-id': body.task_id } }
  for (const left of ['0.005 of the budget left', 'nothing left of the budget'])
    await callDemoTool(
      demo,
      scout,
      { tool: 'hive_trending' },
      { ...inTask, cost: 0.005, said: left },
    )
  const over = { status: 402, code: 'task_budget_exceeded', said: 'the third call stops' }
  await expectRejectedDemoCall(demo, scout, 'hive_trending', { ...inTask, ...over })
  await tripFuse(demo, scout)
}

async function tripFuse(demo: DemoContext, scout: DemoAgent): Promise<void> {
  const json = { agent_name: 'scout', tools: ['hive_trending'], fuse: { per_day_usdc: 0.008 } }
  const path = 'POST /api/backpack/create'
  const { body } = await demo.request<{ backpack_id: string }>(200, path, { key: scout.key, json })
  printDemoOutputLine({ call: path, status: 200, result: 'a Backpack with a fuse at 0.008 a day' })
  const carrying = { headers: { 'x-backpack-id': body.backpack_id } }
  const fine = { ...carrying, cost: 0.005, said: 'within the fuse' }
  await callDemoTool(demo, scout, { tool: 'hive_trending' }, fine)
  const tripped = { status: 403, code: 'FUSE_TRIPPED', said: '0.01 would be more than 0.008' }
  await expectRejectedDemoCall(demo, scout, 'hive_trending', { ...carrying, ...tripped })
}
