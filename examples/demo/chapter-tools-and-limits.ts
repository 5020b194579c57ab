import {
  callDemoTool,
  onboardDemoAgent,
  expectRejectedCall,
  type DemoAgent,
  type DemoContext,
} from './demo-context.ts'
import { printChapterTitle, printStep } from './console-output.ts'

/** Two agents come in: one brings the other. */
export async function runOnboardingChapter(
  day: DemoContext,
): Promise<{ mentor: DemoAgent; scout: DemoAgent }> {
  printChapterTitle('Two agents join')
  const mentor = await onboardDemoAgent(day, 'mentor', 'a key, a wallet, starter credits')
  const { body } = await day.request<{ referral_code: string }>(201, 'POST /api/referrals/create', {
    key: mentor.key,
    json: {},
  })
  const { referral_code: code } = body
  printStep({
    call: 'POST /api/referrals/create',
    status: 201,
    result: `mentor's code: ${code}`,
    cost: 0,
  })
  const scout = await onboardDemoAgent(day, 'scout', 'the same, brought by mentor', {
    referral_code: code,
  })
  return { mentor, scout }
}

/** Tools that are free, and tools that cost credits. */
export async function runToolsChapter(
  day: DemoContext,
  scout: DemoAgent,
  mentor: DemoAgent,
): Promise<void> {
  printChapterTitle('scout works')
  const prices = { tool: 'price_feed', query: 'BTC,ETH' }
  await callDemoTool(day, scout, prices, {
    cost: 0,
    said: 'prices, from the free calls of the day',
  })
  await callDemoTool(
    day,
    scout,
    { tool: 'hive_trending' },
    { cost: 0.005, said: 'what other agents read' },
  )
  const hello = { tool: 'agent_ping', target_agent_id: mentor.id, message: 'I am here.' }
  await callDemoTool(day, scout, hello, { cost: 0.005, said: 'a message to mentor' })
}

/** A task with a budget and a Backpack with a fuse: what an owner allows, and no more. */
export async function runLimitsChapter(day: DemoContext, scout: DemoAgent): Promise<void> {
  printChapterTitle("scout's owner sets limits")
  const { key } = scout
  const task = { name: 'look around', budget_usdc: 0.01 }
  const { body } = await day.request<{ task_id: string }>(200, 'POST /api/task/start', {
    key,
    json: task,
  })
  printStep({ call: 'POST /api/task/start', status: 200, result: 'a task with a budget of 0.01' })
  const inTask = { headers: { 'x-task-id': body.task_id } }
  for (const left of ['0.005 of the budget left', 'nothing left of the budget'])
    await callDemoTool(
      day,
      scout,
      { tool: 'hive_trending' },
      { ...inTask, cost: 0.005, said: left },
    )
  const over = { status: 402, code: 'task_budget_exceeded', said: 'the third call stops' }
  await expectRejectedCall(day, scout, 'hive_trending', { ...inTask, ...over })
  await tripFuse(day, scout)
}

async function tripFuse(day: DemoContext, scout: DemoAgent): Promise<void> {
  const json = { agent_name: 'scout', tools: ['hive_trending'], fuse: { per_day_usdc: 0.008 } }
  const path = 'POST /api/backpack/create'
  const { body } = await day.request<{ backpack_id: string }>(200, path, { key: scout.key, json })
  printStep({ call: path, status: 200, result: 'a Backpack with a fuse at 0.008 a day' })
  const carrying = { headers: { 'x-backpack-id': body.backpack_id } }
  const fine = { ...carrying, cost: 0.005, said: 'within the fuse' }
  await callDemoTool(day, scout, { tool: 'hive_trending' }, fine)
  const tripped = { status: 403, code: 'FUSE_TRIPPED', said: '0.01 would be more than 0.008' }
  await expectRejectedCall(day, scout, 'hive_trending', { ...carrying, ...tripped })
}
