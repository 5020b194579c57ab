import { call, join, refused, type Agent, type Day } from './day.ts'
import { chapter, tell } from './telling.ts'

/** Two agents come in: one brings the other. */
export async function agentsJoin(day: Day): Promise<{ mentor: Agent; scout: Agent }> {
  chapter('Two agents join')
  const mentor = await join(day, 'mentor', 'a key, a wallet, starter credits')
  const { body } = await day.ask<{ referral_code: string }>(201, 'POST /api/referrals/create', {
    key: mentor.key,
    json: {},
  })
  const { referral_code: code } = body
  tell({ call: 'POST /api/referrals/create', status: 201, said: `mentor's code: ${code}`, cost: 0 })
  const scout = await join(day, 'scout', 'the same, brought by mentor', { referral_code: code })
  return { mentor, scout }
}

/** Tools that are free, and tools that cost credits. */
export async function scoutWorks(day: Day, scout: Agent, mentor: Agent): Promise<void> {
  chapter('scout works')
  const prices = { tool: 'price_feed', query: 'BTC,ETH' }
  await call(day, scout, prices, { cost: 0, said: 'prices, from the free calls of the day' })
  await call(day, scout, { tool: 'hive_trending' }, { cost: 0.005, said: 'what other agents read' })
  const hello = { tool: 'agent_ping', target_agent_id: mentor.id, message: 'I am here.' }
  await call(day, scout, hello, { cost: 0.005, said: 'a message to mentor' })
}

/** A task with a budget and a Backpack with a fuse: what an owner allows, and no more. */
export async function ownerSetsLimits(day: Day, scout: Agent): Promise<void> {
  chapter("scout's owner sets limits")
  const { key } = scout
  const task = { name: 'look around', budget_usdc: 0.01 }
  const { body } = await day.ask<{ task_id: string }>(200, 'POST /api/task/start', {
    key,
    json: task,
  })
  tell({ call: 'POST /api/task/start', status: 200, said: 'a task with a budget of 0.01' })
  const inTask = { headers: { 'x-task-id': body.task_id } }
  for (const left of ['0.005 of the budget left', 'nothing left of the budget'])
    await call(day, scout, { tool: 'hive_trending' }, { ...inTask, cost: 0.005, said: left })
  const over = { status: 402, code: 'task_budget_exceeded', said: 'the third call stops' }
  await refused(day, scout, 'hive_trending', { ...inTask, ...over })
  await tripFuse(day, scout)
}

async function tripFuse(day: Day, scout: Agent): Promise<void> {
  const json = { agent_name: 'scout', tools: ['hive_trending'], fuse: { per_day_usdc: 0.008 } }
  const path = 'POST /api/backpack/create'
  const { body } = await day.ask<{ backpack_id: string }>(200, path, { key: scout.key, json })
  tell({ call: path, status: 200, said: 'a Backpack with a fuse at 0.008 a day' })
  const carrying = { headers: { 'x-backpack-id': body.backpack_id } }
  const fine = { ...carrying, cost: 0.005, said: 'within the fuse' }
  await call(day, scout, { tool: 'hive_trending' }, fine)
  const tripped = { status: 403, code: 'FUSE_TRIPPED', said: '0.01 would be more than 0.008' }
  await refused(day, scout, 'hive_trending', { ...carrying, ...tripped })
}
