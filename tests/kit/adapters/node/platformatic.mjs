// The adapter of @platformatic/kafka.
import { Consumer, MessagesStreamFallbackModes, MessagesStreamModes, stringDeserializers } from '@platformatic/kafka'
import { listen, number, options, say } from './common.mjs'

const classic = options.protocol === 'classic'
const consumer = new Consumer({
  clientId: 'platformatic',
  groupId: options.group,
  bootstrapBrokers: [options.bootstrap],
  deserializers: stringDeserializers,
  ...(classic ? {} : { groupProtocol: 'consumer' }),
  heartbeatInterval: 1000,
  sessionTimeout: Math.min(number('session-ms', 45000), number('max-poll-ms', 300000)),
  rebalanceTimeout: number('max-poll-ms', 300000),
  ...(options.instance ? { groupInstanceId: options.instance } : {}),
  autocommit: 1000,
  maxWaitTime: 500,
  retries: 3
})
let stream
let closing = false
consumer.on('error', problem => say('error', { error: String(problem) }))
consumer.on('consumer:group:rebalance:error', problem => say('error', { error: String(problem?.error ?? problem) }))

const close = async () => {
  if (closing) return
  closing = true
  try {
    if (stream) await stream.close()
    await consumer.close(true)
  } catch (problem) {
    say('error', { error: String(problem) })
  }
  say('close_end')
  process.exit(0)
}

listen(line => {
  if (line === 'close') close()
  else if (stream && line === 'pause') stream.pause()
  else if (stream && line === 'resume') stream.resume()
  else say('error', { error: `unsupported: ${line}` })
})

try {
  stream = await consumer.consume({
    topics: options.topics.split(','),
    mode: MessagesStreamModes.COMMITTED,
    fallbackMode: MessagesStreamFallbackModes.EARLIEST
  })
  stream.on('data', () => {})
  stream.on('error', problem => say('error', { error: String(problem) }))
} catch (problem) {
  say('error', { error: String(problem) })
}
