# The pieces and the names are those of ../cloudformation/trnbot.yaml.
variable "export" {
  description = "Make the Data Export of the bill (where the provider's region is us-east-1, which alone has them)"
  type        = bool
  default     = true
}

variable "stream" {
  description = "Write metrics to the bucket by a metric stream, for ticks under three minutes (billed by update, series of each core too)"
  type        = bool
  default     = false
}

variable "billing" {
  description = "The export that exists, instead of the one made here"
  type        = object({ bucket = string, prefix = string })
  default     = null
}

variable "log_group" {
  description = "A log group with the output of the Neuron compiler"
  type        = string
  default     = ""
}

variable "workspace" {
  description = "ARN of the Amazon Managed Prometheus workspace that Neuron metrics go to"
  type        = string
  default     = ""
}

variable "athena_results_bucket" {
  description = "The bucket that Athena's results go to, where the bill is read by Athena"
  type        = string
  default     = ""
}

variable "key" {
  description = "ARN of the KMS key that seals an existing export"
  type        = string
  default     = ""
}

variable "regions" {
  description = "Regions to watch (none = the provider's)"
  type        = list(string)
  default     = []
}

variable "roles" {
  description = "ARNs of the roles of other accounts, made by ../cloudformation/member-role.yaml"
  type        = list(string)
  default     = []
}

variable "more_queues" {
  description = "URLs of the queues of this module in other regions"
  type        = list(string)
  default     = []
}

variable "more_streams" {
  description = "Addresses of the streams of this module in other regions, s3://BUCKET/PREFIX"
  type        = list(string)
  default     = []
}

variable "image" {
  description = "The image of trnbot (none = no bot is started here)"
  type        = string
  default     = ""
}

variable "vpc" {
  description = "The VPC that the bot runs in"
  type        = string
  default     = ""
}

variable "subnets" {
  description = "Subnets of it with a way to the internet, one a zone"
  type        = list(string)
  default     = []
}

variable "public_ip" {
  description = "Give the task a public address, as subnets without a NAT gateway need"
  type        = bool
  default     = true
}

variable "cpu" {
  description = "CPU units; a thousand nodes take 1024"
  type        = number
  default     = 1024
}

variable "memory" {
  description = "MiB of memory"
  type        = number
  default     = 4096
}

variable "secret" {
  description = "ARN of a secret in JSON whose keys are names of secret settings, with TRNBOT_WEB_TOKEN among them"
  type        = string
  default     = ""
}

variable "secret_keys" {
  description = "The keys of that secret that the bot is given"
  type        = list(string)
  default     = ["TRNBOT_WEB_TOKEN", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"]
}

variable "settings" {
  description = "Further settings by the names of their variables, such as TRNBOT_ROUTE"
  type        = map(string)
  default     = {}
}

variable "target_group" {
  description = "ARN of a load balancer's target group for Teams and the console (targets are addresses, port 8080, health check /static/icon.svg), and that load balancer's security group"
  type        = object({ arn = string, security_group = string })
  default     = null
}
