# With an image, trnbot itself: one Fargate task with its state on EFS and its secrets from Secrets Manager.
locals {
  runs = var.image == "" ? 0 : 1
  trust = {
    for service in ["ecs-tasks.amazonaws.com", "firehose.amazonaws.com", "streams.metrics.cloudwatch.amazonaws.com"] :
    service => { Effect = "Allow", Principal = { Service = service }, Action = "sts:AssumeRole" }
  }
  billing = (
    var.billing != null ? "s3://${var.billing.bucket}/${var.billing.prefix}" :
    local.makes_export ? "s3://${aws_s3_bucket.trnbot.bucket}/bill" : ""
  )
  own_streams = var.stream ? ["s3://${aws_s3_bucket.trnbot.bucket}/metrics/${local.region}/"] : []
  environment = merge({
    TRNBOT_SOURCE      = "aws"
    TRNBOT_AWS_REGIONS = join(",", length(var.regions) > 0 ? var.regions : [local.region])
    TRNBOT_AWS_ROLES   = length(var.roles) > 0 ? join(",", concat(["self"], var.roles)) : ""
    TRNBOT_AWS_BILLING = local.billing
    TRNBOT_AWS_EVENTS  = join(",", concat([aws_sqs_queue.events.url], var.more_queues))
    TRNBOT_AWS_STREAM  = join(",", concat(local.own_streams, var.more_streams))
    TRNBOT_METRICS_LAG = var.stream ? "4m" : "1m"
    TRNBOT_AWS_LOGS    = var.log_group
  }, var.settings)
}

resource "aws_iam_role" "task" {
  count = local.runs
  name  = "trnbot-${local.region}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [merge(local.trust["ecs-tasks.amazonaws.com"], {
      Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
    })]
  })
}

resource "aws_iam_role_policy_attachment" "task" {
  count      = local.runs
  role       = aws_iam_role.task[0].name
  policy_arn = aws_iam_policy.permissions.arn
}

resource "aws_iam_role" "start" {
  count              = local.runs
  name_prefix        = "trnbot-start-"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [local.trust["ecs-tasks.amazonaws.com"]] })
}

resource "aws_iam_role_policy_attachment" "start" {
  count      = local.runs
  role       = aws_iam_role.start[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"
}

resource "aws_iam_role_policy" "secrets" {
  count = local.runs
  role  = aws_iam_role.start[0].id
  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "secretsmanager:GetSecretValue", Resource = var.secret }]
  })
}

resource "aws_cloudwatch_log_group" "trnbot" {
  count             = local.runs
  name              = "/trnbot"
  retention_in_days = 30
}

resource "aws_efs_file_system" "state" {
  count     = local.runs
  encrypted = true
  tags      = { Name = "trnbot" }

  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_efs_backup_policy" "state" {
  count          = local.runs
  file_system_id = aws_efs_file_system.state[0].id

  backup_policy {
    status = "ENABLED"
  }
}

resource "aws_efs_access_point" "state" {
  count          = local.runs
  file_system_id = aws_efs_file_system.state[0].id

  posix_user {
    uid = 10001
    gid = 10001
  }
  root_directory {
    path = "/trnbot"
    creation_info {
      owner_uid   = 10001
      owner_gid   = 10001
      permissions = "0700"
    }
  }
}

resource "aws_efs_mount_target" "state" {
  count           = local.runs * length(var.subnets)
  file_system_id  = aws_efs_file_system.state[0].id
  subnet_id       = var.subnets[count.index]
  security_groups = [aws_security_group.state[0].id]
}

resource "aws_security_group" "state" {
  count       = local.runs
  name_prefix = "trnbot-state-"
  description = "The state of trnbot, for its task alone"
  vpc_id      = var.vpc

  ingress {
    description     = "NFS of the task"
    protocol        = "tcp"
    from_port       = 2049
    to_port         = 2049
    security_groups = [aws_security_group.task[0].id]
  }
}

resource "aws_security_group" "task" {
  count       = local.runs
  name_prefix = "trnbot-"
  description = "trnbot asks AWS and the chats, and only a load balancer asks it"
  vpc_id      = var.vpc

  egress {
    description = "AWS and the chats"
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    cidr_blocks = ["0.0.0.0/0"]
  }

  dynamic "ingress" {
    for_each = var.target_group == null ? [] : [var.target_group.security_group]
    content {
      description     = "the load balancer"
      protocol        = "tcp"
      from_port       = 8080
      to_port         = 8080
      security_groups = [ingress.value]
    }
  }
}

resource "aws_ecs_cluster" "trnbot" {
  count = local.runs
  name  = "trnbot"
}

resource "aws_ecs_task_definition" "trnbot" {
  count                    = local.runs
  family                   = "trnbot"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory
  task_role_arn            = aws_iam_role.task[0].arn
  execution_role_arn       = aws_iam_role.start[0].arn

  volume {
    name = "state"
    efs_volume_configuration {
      file_system_id     = aws_efs_file_system.state[0].id
      transit_encryption = "ENABLED"
      authorization_config {
        access_point_id = aws_efs_access_point.state[0].id
      }
    }
  }

  container_definitions = jsonencode([{
    name            = "trnbot"
    image           = var.image
    user            = "10001:10001"
    portMappings    = [{ containerPort = 8080 }]
    mountPoints     = [{ sourceVolume = "state", containerPath = "/var/lib/trnbot" }]
    linuxParameters = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
    stopTimeout     = 15
    # Not /healthz, which says too that AWS does not answer: a task that is started again mends no such thing.
    healthCheck = {
      command = [
        "CMD", "python", "-c",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/livez', timeout=4)",
      ]
      interval    = 30
      timeout     = 5
      retries     = 5
      startPeriod = 120
    }
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.trnbot[0].name
        awslogs-region        = local.region
        awslogs-stream-prefix = "serve"
      }
    }
    environment = [for name, value in local.environment : { name = name, value = value }]
    secrets     = [for key in var.secret_keys : { name = key, valueFrom = "${var.secret}:${key}::" }]
  }])

  lifecycle {
    precondition {
      condition     = var.secret != "" && var.vpc != "" && length(var.subnets) > 0
      error_message = "With an image, name the secret, the vpc and the subnets."
    }
  }
}

resource "aws_ecs_service" "trnbot" {
  count           = local.runs
  name            = "trnbot"
  cluster         = aws_ecs_cluster.trnbot[0].id
  task_definition = aws_ecs_task_definition.trnbot[0].arn
  launch_type     = "FARGATE"
  desired_count   = 1
  # One process watches with a database: the old task ends before the new one starts.
  deployment_maximum_percent         = 100
  deployment_minimum_healthy_percent = 0
  depends_on                         = [aws_efs_mount_target.state]

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnets
    security_groups  = [aws_security_group.task[0].id]
    assign_public_ip = var.public_ip
  }

  dynamic "load_balancer" {
    for_each = var.target_group == null ? [] : [var.target_group.arn]
    content {
      target_group_arn = load_balancer.value
      container_name   = "trnbot"
      container_port   = 8080
    }
  }
}
